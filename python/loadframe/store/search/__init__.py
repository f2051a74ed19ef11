"""Code that Elasticsearch and OpenSearch share; each store is a module next to this package."""
