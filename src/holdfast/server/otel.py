"""OpenTelemetry: spans as its SDK knows them, sent by OTLP over HTTP."""
