"""The routes, one file a resource.

suggest     POST /suggest and /explain          decisions   /decisions
concepts    /ontology                           export      GET /export
documents   /documents: the queue               runs        /runs
uploads     POST /documents/upload              session     /me, /login, /logout
annif       /v1: the REST API of Annif          health      /healthz, /readyz, /status, /metrics
quarantine  GET /quarantine                     page        / and /page
reconcile   /reconcile: the API of OpenRefine
"""
