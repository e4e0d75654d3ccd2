"""The HTTP service: suggestions, the decisions of curators, and the curator's page.

    request ─ middleware ─ routes ─ batcher (queue, batches) ─ model_process (holds the models)
                             └─ database (documents, suggestions, decisions)

    api             puts the routes together and starts the server
    service         settings and the objects that all routes share
    routes/         one file a resource: suggest, concepts, documents, uploads, decisions, export,
                    projects, runs, session, health, page, annif (/v1)
    requests        bodies of requests          responses       bodies of responses
    http/           around every route: connections, limits, keys, errors, logs, counters, traces
    prediction/     runs as the service asks them: batches, processes of models, new versions, and
                    how suggestions and concepts are shown
    database/       documents and their queue, suggestions, decisions, projects, damaged rows
    uploads         files into documents        export_formats  documents into files (marc)
    learn           `ontodex learn`             decided_documents   what it learns from
    agreement       of two curators             reconciliation      the protocol of OpenRefine

These modules import FastAPI and SQLAlchemy at the top. Only `ontodex serve` and `ontodex learn`
import them, after checking that the extra is installed.
"""
