"""rows: records to columns of an Arrow table. builder: such columns back to record batches."""
