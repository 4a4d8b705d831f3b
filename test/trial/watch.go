package trial

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Handler reports every version of an object, and its deletion, by UID. After a break, a list may
// show a deleted object and its successor with the same name as one changed object.
func Handler[T metav1.Object](see, gone func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { see(o.(T)) },
		UpdateFunc: func(was, is any) {
			if was.(T).GetUID() != is.(T).GetUID() {
				gone(was.(T))
			}
			see(is.(T))
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if object, ok := o.(T); ok {
				gone(object)
			}
		},
	}
}
