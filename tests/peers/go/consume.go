package main

import (
	"context"
	"sync"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// subscribed starts a consumer of --topic: --filter tags or --sql, --orderly, --model BROADCASTING, --max-reconsume.
func (p *peer) subscribed(consume listener) (rocketmq.PushConsumer, error) {
	options := []consumer.Option{
		consumer.WithGroupName(p.option("group", "peer")),
		consumer.WithInstance(p.option("instance", "one")),
		consumer.WithNsResolver(p.nameServers()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(p.option("orderly", "false") == "true"),
	}
	if p.option("model", "") == "BROADCASTING" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if limit := p.integer("max-reconsume", -1); limit >= 0 {
		options = append(options, consumer.WithMaxReconsumeTimes(int32(limit)))
	}
	if p.option("access-key", "") != "" {
		options = append(options, consumer.WithCredentials(p.credentials()))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: p.option("filter", "*")}
	if sql := p.option("sql", ""); sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	if err = made.Subscribe(p.option("topic", "T"), selector, consume); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// consume until --expect different keys were consumed, or --seconds passed. --fail-key: that key fails each time, and is
// tried again after --retry-level.
func (p *peer) consume() error {
	var seen sync.Map
	var lock sync.Mutex
	count, expect := 0, p.integer("expect", 1<<30)
	made, err := p.subscribed(func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, m := range messages {
			p.say("M", p.option("instance", "one"), m.Queue.QueueId, m.QueueOffset, m.ReconsumeTimes, m.GetKeys(), m.GetTags(),
				string(m.Body))
			if m.GetKeys() == p.option("fail-key", "") {
				if concurrently, ok := primitive.GetConcurrentlyCtx(ctx); ok {
					concurrently.DelayLevelWhenNextConsume = p.integer("retry-level", 1)
				}
				result = consumer.ConsumeRetryLater
			} else if _, known := seen.LoadOrStore(m.GetKeys(), true); !known {
				lock.Lock()
				if count++; count >= expect {
					p.stop()
				}
				lock.Unlock()
			}
		}
		return result, nil
	})
	if err != nil {
		return err
	}
	p.say("READY")
	p.stay(60)
	return made.Shutdown()
}
