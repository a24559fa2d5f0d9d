// Requests of charts to the server, and decoding of their binary answers.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const RETRY_MS = 3000;

  space.ask = async (path, query) => {
    const text = new URLSearchParams(query || {}).toString();
    const response = await fetch('/api/' + path + (text ? '?' + text : ''), {credentials: 'same-origin'});
    if (response.ok) return response;
    let message = 'The server did not answer (' + response.status + '); reload the page.';
    try { message = (await window.tilescope_text.read(response)).message || message; } catch (error) { /* not JSON */ }
    throw new Error(message);
  };

  // Gives a plot of one question at a time the answer to what its view asks (`asked`), which `read`
  // fetches; after an error, the plot asks again.
  space.answer = async (plot, read) => {
    if (plot.inFlight || plot.failed || !plot.view.report || !plot.isShown()) return;
    if (plot.data && plot.data.asked === plot.asked) return;
    const {asked} = plot;
    plot.inFlight = true;
    try {
      const data = await read();
      if (asked === plot.asked) plot.take({...data, asked});
    } catch (error) {
      if (asked !== plot.asked) return;
      plot.failed = error.message;
      plot.say(error.message, true);
      setTimeout(() => { plot.failed = ''; plot.request(); }, RETRY_MS);
    } finally {
      plot.inFlight = false;
      if (!plot.failed) plot.request();
    }
  };

  space.header = (buffer) => {
    const length = new DataView(buffer).getUint32(0, true);
    const header = window.tilescope_text.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let at = 4 + length;
    const take = (kind, n) => {
      const part = new kind(buffer, at, n);
      at += n * kind.BYTES_PER_ELEMENT;
      return part;
    };
    return {header, take};
  };

  // The series of one or two reports, see webapp/api/chart_block.py; arrays are views, not copies.
  space.unpackChart = (buffer) => {
    const {header, take} = space.header(buffer);
    for (const side of header.sides) {
      const n = side.n_shown;
      for (const series of side.series) series.values = take(Float64Array, n);
      side.total = take(Float64Array, n);
      side.place = take(Int32Array, n);
      side.item = take(Int32Array, n);
      side.matches = {
        height: take(Float64Array, side.n_matches), place: take(Int32Array, side.n_matches),
        item: take(Int32Array, side.n_matches),
      };
      side.stack = new Float64Array(n);
      for (const {values} of side.series) for (let i = 0; i < n; i += 1) side.stack[i] += values[i];
    }
    return header;
  };

  // The first place of a sorted list that is not before a value.
  space.lowerBound = (sorted, value) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  space.indexOf = (sorted, value) => {
    const i = space.lowerBound(sorted, value);
    return i < sorted.length && sorted[i] === value ? i : -1;
  };

  // The entry of a sorted list nearest to a value; -1 in an empty one.
  space.nearest = (sorted, value) => {
    const i = space.lowerBound(sorted, value);
    if (i === 0) return sorted.length ? 0 : -1;
    if (i === sorted.length) return i - 1;
    return value - sorted[i - 1] <= sorted[i] - value ? i - 1 : i;
  };
})();
