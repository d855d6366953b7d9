"""rows turns records into columns of an Arrow table; builder turns such columns back into record batches."""
