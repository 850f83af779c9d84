// Package scrape makes gauges of what stands in the cache at the time of a
// scrape: nothing has to be kept up, or reset when an object goes.
//
// It must not know controllers.
package scrape

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readTimeout bounds the reads of one scrape.
const readTimeout = 5 * time.Second

// Count reads what a gauge shows, and gives it out as values with those of the
// gauge's labels, each combination once.
type Count func(ctx context.Context, reader client.Reader, give func(value float64, labels ...string)) error

// Gauge is a collector. It shows nothing before it is told where to read.
type Gauge struct {
	desc   *prometheus.Desc
	count  Count
	reader atomic.Pointer[client.Reader]
}

// NewGauge makes a gauge. Labels must not name nodes: series stay bounded in a
// fleet of any size.
func NewGauge(name, help string, labels []string, count Count) *Gauge {
	return &Gauge{desc: prometheus.NewDesc(name, help, labels, nil), count: count}
}

// ReadFrom says where to read from now on: a cache.
func (g *Gauge) ReadFrom(reader client.Reader) { g.reader.Store(&reader) }

// Describe implements prometheus.Collector.
func (g *Gauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *Gauge) Collect(ch chan<- prometheus.Metric) {
	reader := g.reader.Load()
	if reader == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err := g.count(ctx, *reader, func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
	})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(g.desc, err)
	}
}
