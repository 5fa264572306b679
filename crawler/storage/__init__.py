"""Pages in MongoDB: their documents, their collections, and how they are written."""
