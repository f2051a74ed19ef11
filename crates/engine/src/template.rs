//! Texts with holes: `${name}` in a request's path or body, filled per request.
