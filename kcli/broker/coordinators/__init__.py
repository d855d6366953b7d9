"""The coordinators of groups and of transactions on a broker."""
