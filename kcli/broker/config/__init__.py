"""The configuration of a broker: Kafka's names, defaults and validation; static and dynamic values, and their
changes."""

from kcli.broker.config.broker_config import BrokerConfig as BrokerConfig
