"""The plan kinds of brokers: one configuration key, and draining."""

from console.broker.config_plan import BrokerConfigPlan
from console.broker.drain_plan import BrokerDrainPlan

__all__ = ["BrokerConfigPlan", "BrokerDrainPlan"]
