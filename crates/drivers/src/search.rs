//! The HTTP protocol of Elasticsearch and OpenSearch.
