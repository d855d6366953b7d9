"""The configuration of a broker: Kafka's names, defaults and rules; what is set, where, and how it changes."""

from kcli.broker.config.broker_config import BrokerConfig as BrokerConfig
