"""The HTTP service: suggestions, the decisions of curators, and the curator's page.

    request ─ middleware ─ routes ─ batcher (queue, batches) ─ model_process (holds the models)
                             └─ database (documents, suggestions, decisions)

    api             puts the routes together and starts the server
    service         settings and the objects that all routes share
    middleware      host, origin, key and size checks around every route; log and metrics
    routes/         one file a resource: suggest, concepts, documents, uploads, decisions, export,
                    projects, runs, session, health, page, annif (/v1)
    requests        bodies of requests          responses       bodies of responses
    problems        the format of errors        run_view        a run as the routes show it
    batcher         queue and batches           model_process   the process with the models
    database        documents and decisions     learn           `ontodex learn`
    reload          new versions of runs        decided_documents   what `learn` learns from
    projects        a queue for each vocabulary agreement       of two curators

These modules import FastAPI and SQLAlchemy at the top. Only `ontodex serve` and `ontodex learn`
import them, after checking that the extra is installed.
"""
