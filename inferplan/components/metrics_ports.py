"""The ports at which pods of the gateway and of preheats answer Prometheus."""

STATUS_PORT = 8081
METRICS_PORT, METRICS_PATH = 9091, "/metrics"
