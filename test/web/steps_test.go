package web

import (
	"github.com/chromedp/chromedp"
)

func navigate(address string) chromedp.Action { return chromedp.Navigate(address) }
