"""The formats in bulk: Cython kernels over whole windows of log, as columns. See log.pyx."""
