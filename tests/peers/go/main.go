// Peer produces or consumes with the official Go client, unmodified. It reads and writes the lines of the Java peer
// (tests/peers/java, Peer.java): "number command --option value …" begins a peer, "number stop" ends it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type peer struct {
	number   string
	command  string
	options  map[string]string
	stopped  chan struct{}
	stopOnce sync.Once
}

var output sync.Mutex

func main() {
	rlog.SetLogLevel("fatal")
	peers := map[string]*peer{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Split(input.Text(), "\t")
		if words[1] == "stop" {
			peers[words[0]].stop()
			continue
		}
		begun := &peer{number: words[0], command: words[1], options: map[string]string{}, stopped: make(chan struct{})}
		for i := 2; i+1 < len(words); i += 2 {
			begun.options[strings.TrimPrefix(words[i], "--")] = words[i+1]
		}
		peers[words[0]] = begun
		go begun.run()
	}
}

func (p *peer) run() {
	commands := map[string]func() error{
		"produce": p.produce, "consume": p.consume, "transact": p.transact,
	}
	err := fmt.Errorf("no such peer: %s", p.command)
	if command, ok := commands[p.command]; ok {
		err = command()
	}
	if err != nil {
		p.say("FAILED", oneLine(err))
		p.say("END", 1)
		return
	}
	p.say("END", 0)
}

func oneLine(err error) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(err.Error())
}

func (p *peer) say(columns ...any) {
	line := p.number
	for _, column := range columns {
		line += "\t" + fmt.Sprint(column)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(line)
}

func (p *peer) option(name, otherwise string) string {
	if found, ok := p.options[name]; ok {
		return found
	}
	return otherwise
}

func (p *peer) integer(name string, otherwise int) int {
	found, err := strconv.Atoi(p.option(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return found
}

func (p *peer) stop() { p.stopOnce.Do(func() { close(p.stopped) }) }

func (p *peer) isStopped() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// stay waits --seconds, or until the peer is to stop.
func (p *peer) stay(otherwise int) {
	select {
	case <-p.stopped:
	case <-time.After(time.Duration(p.integer("seconds", otherwise)) * time.Second):
	}
}

func (p *peer) nameServers() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{p.option("namesrv", "")})
}

func (p *peer) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: p.option("access-key", ""), SecretKey: p.option("secret-key", "")}
}
