from __future__ import annotations

from brokerd.remoting.body.group import SubscriptionGroupConfig


def test_it_reads_a_group_of_4_x_with_the_defaults_of_5_x() -> None:
    config = SubscriptionGroupConfig.from_body(b'{"groupName":"G","retryMaxTimes":3,"consumeEnable":false}')
    assert config == SubscriptionGroupConfig("G", consume_enable=False, retry_max_times=3)
    assert (config.consume_timeout_minute, config.retry_queue_nums, config.attributes) == (15, 1, {})
