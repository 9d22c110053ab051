// Command app is the application of this example: a store that counts, and a
// front that asks it.
//
//	app store --data DIR     counts, and keeps the count in DIR
//	app front --store URL    shows the count
//	app check URL            ends with 0 when URL answers well
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: app store|front|check")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	data := flags.String("data", "/data", "directory that keeps the count")
	store := flags.String("store", "", "URL of the store")
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	switch os.Args[1] {
	case "store":
		var mu sync.Mutex
		serve(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			path := filepath.Join(*data, "count")
			text, _ := os.ReadFile(path) // none yet
			n, _ := strconv.Atoi(string(text))
			if r.Method == http.MethodPost {
				n++
				if err := os.WriteFile(path, []byte(strconv.Itoa(n)), 0o600); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
			fmt.Fprintln(w, n)
		})
	case "front":
		serve(func(w http.ResponseWriter, r *http.Request) {
			method := http.MethodPost
			if r.URL.Path == "/health" { // it can ask, which counts nobody
				method = http.MethodGet
			}
			count, err := ask(method, *store)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			fmt.Fprintf(w, "Visitor number %s", count)
		})
	case "check":
		if _, err := ask(http.MethodGet, flags.Arg(0)); err != nil {
			log.Fatal(err)
		}
	}
}

func serve(handle http.HandlerFunc) {
	server := &http.Server{Addr: ":8080", Handler: handle, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func ask(method, url string) (string, error) {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}
