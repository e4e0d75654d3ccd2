"""Stage 8: runs behind HTTP, for programs and for the curator's page.

    request ─ guard ─ routes ─ engine (queue, batches) ─ worker (a process with the models)
                        └─ decisions database

    guard       host, origin, key, body size, headers, log and figures: around everything
    service     what all routes share; api puts the routes together and starts the server
    suggest     /suggest and /explain          concepts   /ontology
    documents   the queue, uploads, export     verdicts   /decisions
    annif       /v1                            about      /runs, /status, probes, the page

FastAPI and SQLAlchemy are imported at the top of these modules, so nothing outside this folder
imports them before `serve` (or `learn`) has asked whether they are installed.
"""
