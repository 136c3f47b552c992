import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when it is imported; tests make no network calls
