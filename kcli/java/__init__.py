"""Computations of Java and its libraries on which Kafka's answers depend. No I/O, no clock.

hashing         hash codes, and the order in which a HashMap iterates over its keys
murmur3         MurmurHash3 with 128 bits
priority_queue  the order in which a PriorityQueue gives elements of equal priority
tree_set        the order in which a TreeSet iterates over elements whose order changes
values          numbers and lists from their text, as Java's parsers read them
dates           dates formatted and parsed by patterns of SimpleDateFormat
addresses       IP addresses as Java writes them
options         system properties in the options of a JVM
linear_regex    regular expressions with RE2/J's syntax, and bounds on what they may cost
regex           regular expressions and replacements with the syntax of Java's own
"""
