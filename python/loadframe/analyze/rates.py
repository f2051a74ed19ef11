"""Figures that count how much is done in a second. They are here alone, so that plans can name them without a fit."""

#: Their units, by how they are called: of requests, and of documents that the store took or returned.
RATES = {"throughput": "requests/s", "documents": "documents/s"}
