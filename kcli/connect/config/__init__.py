"""What connectors, converters and transforms can be configured with, and what is wrong with a configuration.

config_def  ConfigDef: options, and configurations parsed and validated by them. Start here
validators  what an option's value must be
common      the options that every connector has, of sources and of sinks, and those of topic creation

No I/O, no clock.
"""
