// Requests of the trace to the server, and decoding of its binary answers.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});

  async function ask(url, signal, method = 'GET') {
    const response = await fetch(url, {signal, method, headers: {Accept: '*/*'}, credentials: 'same-origin'});
    if (response.ok) return response;
    let message = 'The server did not answer (' + response.status + '); reload the page.';
    try { message = (await window.tilescope_text.read(response)).message || message; } catch (error) { /* not JSON */ }
    throw new Error(message);
  }

  // Splits an answer into groups (one per track of an IPU) of lanes; arrays are views, not copies.
  function unpack(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const header = window.tilescope_text.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const n = header.n_bars;
    let at = 4 + length;
    const take = (kind, size) => { const part = new kind(buffer, at, n); at += n * size; return part; };
    const start = take(Float64Array, 8);
    const duration = take(Float64Array, 8);
    const name = take(Int32Array, 4);
    const count = take(Int32Array, 4);
    const lane = take(Uint16Array, 2);
    const kind = take(Uint8Array, 1);
    // Where every bar of several slices has its shares; -1 for the others.
    const mix = new Int32Array(n).fill(-1);
    let mixed = 0;
    for (let i = 0; i < n; i += 1) if (count[i] > 1) { mix[i] = mixed; mixed += header.n_kinds; }
    const share = new Uint8Array(buffer, at, mixed);
    // Of a bar of several slices, the name and the cycles of the longest.
    at += mixed;
    at += -at & 3;
    const nMixed = mixed / header.n_kinds;
    const longestName = new Int32Array(buffer, at, nMixed);
    const longestCycles = new Float32Array(buffer, at + 4 * nMixed, nMixed);
    const groups = new Map();
    let low = 0;
    header.lanes.forEach(([ipu, track, level], index) => {
      let high = low;
      while (high < n && lane[high] === index) high += 1;
      const key = ipu + '.' + track;
      if (!groups.has(key)) groups.set(key, {key, ipu, track, lanes: []});
      let kinds = 0;
      for (let i = low; i < high; i += 1) {
        kinds |= 1 << kind[i];
        if (mix[i] < 0) continue;
        for (let k = 0; k < header.n_kinds; k += 1) if (share[mix[i] + k]) kinds |= 1 << k;
      }
      const made = {
        level, kinds, n: high - low,
        start: start.subarray(low, high), duration: duration.subarray(low, high),
        name: name.subarray(low, high), count: count.subarray(low, high),
        kind: kind.subarray(low, high), mix: mix.subarray(low, high), share,
        nKinds: header.n_kinds, longestName, longestCycles, top: 0, height: 0,
      };
      if (level === space.STEPS_LEVEL) groups.get(key).steps = made;
      else groups.get(key).lanes.push(made);
      low = high;
    });
    const {start_cycle: from, end_cycle: to, n_pixels: pixels} = header;
    return {start: from, end: to, pixels, perPixel: (to - from) / pixels, groups};
  }

  space.Source = class {
    // A side of a pair (baseline, candidate, alignment, side) answers in places of the common axis.
    constructor(report, pair) {
      this.report = encodeURIComponent(report);
      this.own = 'api/trace/' + encodeURIComponent(report) + '/';
      this.both = pair
        ? ['api/trace-pair', ...[pair.report, pair.with, pair.align].map(encodeURIComponent), ''].join('/') : this.own;
      this.root = pair ? this.both + pair.side + '/' : this.own;
      this.labels = [];
      this.paths = null;
    }

    url(what, query) {
      const text = new URLSearchParams(query || {}).toString();
      const isOfReport = what === 'names' || what === 'search';
      const root = isOfReport ? this.own : what === 'match' ? this.both : this.root;
      return '/' + root + what + (text ? '?' + text : '');
    }

    async json(what, query) {
      return window.tilescope_text.read(await ask(this.url(what, query)));
    }

    // Notes are written and removed by requests without a body.
    async notes(what, query, method) {
      const text = new URLSearchParams(query).toString();
      const answer = await ask('/api/notes/' + this.report + what + (text ? '?' + text : ''), undefined, method);
      return window.tilescope_text.read(answer);
    }

    async window(query, signal) {
      return unpack(await (await ask(this.url('window', query), signal)).arrayBuffer());
    }

    async loadNames() {
      const {labels, parents} = await this.json('names');
      this.labels = labels;
      this.parents = parents;
    }

    label(id) {
      return this.labels[id] || '';
    }

    path(id) {
      if (!this.labels.length) return '';
      const levels = [];
      for (let at = id; at >= 0; at = this.parents[at]) levels.push(this.labels[at]);
      return levels.reverse().join('/');
    }

    // A flag per name: 1 if its path has all words of the text.
    matches(text) {
      const wanted = window.tilescope_search.words(text);
      const found = new Uint8Array(this.labels.length);
      if (!wanted.length) return found;
      if (!this.paths) {
        this.paths = [];
        this.labels.forEach((label, id) => {
          const parent = this.parents[id];
          this.paths.push(parent < 0 ? label.toLowerCase() : this.paths[parent] + '/' + label.toLowerCase());
        });
      }
      this.paths.forEach((path, id) => { if (window.tilescope_search.fit(wanted, path)) found[id] = 1; });
      return found;
    }
  };
})();
