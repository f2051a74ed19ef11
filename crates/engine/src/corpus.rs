//! Corpora: documents by number, generated or read from NDJSON files.
