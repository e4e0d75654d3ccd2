"""The database of documents, suggestions and decisions."""
