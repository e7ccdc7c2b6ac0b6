"""The REST API: connectors and jobs over HTTP."""
