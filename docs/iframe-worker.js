// Runs the search in a hidden frame where the site is opened from a folder: browsers allow no workers there.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      window.addEventListener("message", ({ source, data }) => {
        if (source !== inside) return
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      })
      const send = "postMessage = message => parent.postMessage(message, '*')"
      const load = `importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise(loaded => {
        const script = document.createElement("script")
        Object.assign(script, { src: url, onload: loaded })
        document.body.appendChild(script)
      })), Promise.resolve())`
      this.ready = new Promise(resolve => {
        this.frame.addEventListener("load", resolve)
        inside.document.open()
        inside.document.write(`<body><script>${send};${load}</script><script src="${url}"></script></body>`)
        inside.document.close()
      })
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
