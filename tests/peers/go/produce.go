package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const batch = 20

func (p *peer) producerOptions() []producer.Option {
	options := []producer.Option{
		producer.WithGroupName(p.option("group", "go-producer")),
		producer.WithNsResolver(p.nameServers()),
		producer.WithRetry(p.integer("retries", 5)),
		producer.WithSendMsgTimeout(time.Duration(p.integer("timeout", 5000)) * time.Millisecond),
	}
	if p.option("access-key", "") != "" {
		options = append(options, producer.WithCredentials(p.credentials()))
	}
	if p.option("mode", "") == "ordered" {
		options = append(options, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	}
	return options
}

// produce: --mode sync|batch|oneway|async|ordered, --count, --size bytes, --tags a,b, --delay level, --pause milliseconds
// after each and --linger at the end: keys are k0 … k(count-1).
func (p *peer) produce() error {
	made, err := rocketmq.NewProducer(p.producerOptions()...)
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	step := 1
	if p.option("mode", "sync") == "batch" {
		step = batch
	}
	count, sent, began := p.integer("count", 1), 0, time.Now()
	for from := 0; from < count && !p.isStopped(); from += step {
		to := min(count, from+step)
		if err = p.send(made, from, to); err != nil {
			p.say("FAILED", from, oneLine(err))
		} else {
			sent += to - from
		}
		time.Sleep(time.Duration(p.integer("pause", 0)) * time.Millisecond)
	}
	time.Sleep(time.Duration(p.integer("linger", 0)) * time.Millisecond)
	p.say("SENT", sent, time.Since(began).Milliseconds())
	return made.Shutdown()
}

func (p *peer) send(made rocketmq.Producer, from, to int) error {
	var messages []*primitive.Message
	for i := from; i < to; i++ {
		messages = append(messages, p.message(i))
	}
	switch p.option("mode", "sync") {
	case "oneway":
		return made.SendOneWay(context.Background(), messages...)
	case "async":
		done := make(chan error, 1)
		err := made.SendAsync(context.Background(), func(_ context.Context, _ *primitive.SendResult, err error) {
			done <- err
		}, messages...)
		if err != nil {
			return err
		}
		return <-done
	}
	_, err := made.SendSync(context.Background(), messages...)
	return err
}

func (p *peer) message(i int) *primitive.Message {
	body := []byte("body-" + strconv.Itoa(i) + " ")
	for len(body) < p.integer("size", 0) {
		body = append(body, byte('a'+len(body)%26))
	}
	made := primitive.NewMessage(p.option("topic", "T"), body).WithKeys([]string{"k" + strconv.Itoa(i)})
	made.WithProperty("n", strconv.Itoa(i))
	if tags := p.option("tags", ""); tags != "" {
		each := strings.Split(tags, ",")
		made.WithTag(each[i%len(each)])
	}
	if level := p.integer("delay", 0); level > 0 {
		made.WithDelayTimeLevel(level)
	}
	if p.option("mode", "") == "ordered" {
		made.WithShardingKey("shard-" + strconv.Itoa(i%p.integer("shards", 8)))
	}
	return made
}

// transact: --count messages; --decisions of the local transaction and --answers to the broker's checks, each of
// commit,rollback,unknown in turn. It stays --seconds to be checked.
func (p *peer) transact() error {
	made, err := rocketmq.NewTransactionProducer(p, p.producerOptions()...)
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	for i := range p.integer("count", 1) {
		result, err := made.SendMessageInTransaction(context.Background(), p.message(i))
		if err != nil {
			p.say("FAILED", i, oneLine(err))
			continue
		}
		p.say("BEGUN", "k"+strconv.Itoa(i), int(result.State))
	}
	p.say("READY")
	p.stay(1)
	return made.Shutdown()
}

func (p *peer) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return state(p.option("decisions", "commit"), message)
}

func (p *peer) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	p.say("CHECKED", message.GetKeys(), message.GetProperty("TRANSACTION_CHECK_TIMES"))
	return state(p.option("answers", "unknown"), &message.Message)
}

func state(choices string, message *primitive.Message) primitive.LocalTransactionState {
	each := strings.Split(choices, ",")
	n, err := strconv.Atoi(message.GetProperty("n"))
	if err != nil {
		return primitive.UnknowState
	}
	switch each[n%len(each)] {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}
