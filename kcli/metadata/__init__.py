"""The state of a cluster, rebuilt from the records of its metadata log. No files and no clock in here."""
