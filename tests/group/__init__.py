"""Tests of kcli.group: the machine under a clock of the test's."""
