"""A broker that serves directories as they are."""
