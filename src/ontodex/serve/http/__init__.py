"""Connections, limits, users, errors, logs, counters and traces around every route."""
