"""The cluster's metadata: the image that the records of the metadata log build (`image`), and the controller's
decisions: functions that return records (`*_control`, `election`, `reassignment` and others). No I/O, no clock."""
