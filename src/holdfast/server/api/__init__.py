"""The framework of `/api/v1`: router, endpoints, context, errors, OpenAPI, and the client."""
