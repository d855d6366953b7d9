"""The cluster's metadata: the image that the records of the metadata log build (`image`), and the controller's
decisions, which return records (`*_control` and beside them). It has no I/O and no clock."""
