"""What Elasticsearch and OpenSearch share; each of the two is a module beside this package."""
