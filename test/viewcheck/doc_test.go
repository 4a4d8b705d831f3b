// Package viewcheck compares placement.ViewOf with cAdvisor on captures of real machines, and with
// cAdvisor's results that were recorded on captured servers.
package viewcheck
