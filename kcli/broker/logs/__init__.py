"""The logs of a broker: directories, start, partitions, and what is done to them in the background."""
