// Logs in with SASL, writes one record and reads it back: with franz-go and with kafka-go.
//
// program <franz-go|kafka-go> <bootstrap> <mechanism> <user> <password> <topic> <value>
//
// Prints the value that was read. A second word `token` after it makes user and password the id and
// the HMAC of a delegation token (franz-go only). With OAUTHBEARER (franz-go only) the password is a
// signed token. With the mechanism `none` nobody logs in. Where
// TLS_CA is set, a file of trusted certificates, connections are encrypted; TLS_CERTIFICATE is a file
// with the key and the certificate to show.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	kafkasasl "github.com/segmentio/kafka-go/sasl"
	kafkaplain "github.com/segmentio/kafka-go/sasl/plain"
	kafkascram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type order struct {
	bootstrap                 []string
	mechanism, user, password string
	topic, value              string
	byToken                   bool
}

func main() {
	if len(os.Args) < 8 {
		fmt.Fprintln(os.Stderr, "too few arguments")
		os.Exit(2)
	}
	given := order{
		strings.Split(os.Args[2], ","), os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7],
		len(os.Args) > 8 && os.Args[8] == "token",
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	run := map[string]func(context.Context, order) (string, error){
		"franz-go": withFranzGo, "kafka-go": withKafkaGo,
	}[os.Args[1]]
	read, err := run(ctx, given)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(read)
}

// tlsConfig is nil where connections are in the clear.
func tlsConfig() (*tls.Config, error) {
	authority := os.Getenv("TLS_CA")
	if authority == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted}
	if own := os.Getenv("TLS_CERTIFICATE"); own != "" {
		pair, err := tls.LoadX509KeyPair(own, own)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func franzMechanism(given order) sasl.Mechanism {
	auth := scram.Auth{User: given.user, Pass: given.password, IsToken: given.byToken}
	switch given.mechanism {
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.password}.AsMechanism()
	}
	return plain.Auth{User: given.user, Pass: given.password}.AsMechanism()
}

func withFranzGo(ctx context.Context, given order) (string, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(given.bootstrap...),
		kgo.ConsumeTopics(given.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableIdempotentWrite(),
	}
	if given.mechanism != "none" {
		options = append(options, kgo.SASL(franzMechanism(given)))
	}
	config, err := tlsConfig()
	if err != nil {
		return "", err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	// An error of authentication is told at once by a ping; a produce would try again.
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: given.topic, Value: []byte(given.value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == given.value {
				return given.value, nil
			}
		}
	}
}

func kafkaMechanism(given order) (kafkasasl.Mechanism, error) {
	switch given.mechanism {
	case "none":
		return nil, nil
	case "SCRAM-SHA-256":
		return kafkascram.Mechanism(kafkascram.SHA256, given.user, given.password)
	case "SCRAM-SHA-512":
		return kafkascram.Mechanism(kafkascram.SHA512, given.user, given.password)
	case "PLAIN":
		return kafkaplain.Mechanism{Username: given.user, Password: given.password}, nil
	}
	return nil, errors.New("kafka-go has no " + given.mechanism)
}

func withKafkaGo(ctx context.Context, given order) (string, error) {
	mechanism, err := kafkaMechanism(given)
	if err != nil {
		return "", err
	}
	config, err := tlsConfig()
	if err != nil {
		return "", err
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(given.bootstrap...),
		Topic:        given.topic,
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond,
		Transport:    &kafka.Transport{SASL: mechanism, TLS: config},
	}
	defer writer.Close()
	if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(given.value)}); err != nil {
		return "", err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     given.bootstrap,
		GroupID:     "go-" + given.value,
		Topic:       given.topic,
		StartOffset: kafka.FirstOffset,
		MaxWait:     100 * time.Millisecond,
		Dialer:      &kafka.Dialer{SASLMechanism: mechanism, TLS: config, Timeout: 10 * time.Second},
	})
	defer reader.Close()
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return "", err
		}
		if string(message.Value) == given.value {
			return given.value, nil
		}
	}
}
