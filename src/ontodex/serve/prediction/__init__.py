"""Runs as the service asks them: batches, processes of models, and how answers are shown."""
