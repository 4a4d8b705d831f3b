package main

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// dueQueue returns nodes when their time has come.
type dueQueue struct {
	mu      sync.Mutex
	heap    dueHeap
	pending int // nodes that were pushed and are not finished
	wake    chan struct{}
	once    sync.Once
	out     chan *simNode
}

func (q *dueQueue) ready() chan *simNode {
	q.once.Do(func() { q.out = make(chan *simNode) })
	return q.out
}

func (q *dueQueue) push(n *simNode, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending++
	heap.Push(&q.heap, dueNode{at, n})
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *dueQueue) finished() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending--
}

func (q *dueQueue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending == 0
}

// next returns the first node if its time has come, otherwise the time until then.
func (q *dueQueue) next() (*simNode, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(q.heap[0].at); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&q.heap).(dueNode).node, 0
}

func (q *dueQueue) run(ctx context.Context) {
	for {
		n, wait := q.next()
		if n == nil {
			select {
			case <-ctx.Done():
				return
			case <-q.wake:
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case q.ready() <- n:
		}
	}
}

type dueNode struct {
	at   time.Time
	node *simNode
}

type dueHeap []dueNode

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueNode)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
