"""A partition on disk: reading its segments, window by window."""
