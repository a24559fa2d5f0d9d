// The state of a page lives in the URL. `read` sets the controls from the URL, `write` sets the URL
// from the controls, and scripts call `changeView`. Nothing else changes the address.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  function asControl(parameter, text) {
    return parameter.prop === 'checked' ? text === '1' : text;
  }

  function asText(value) {
    if (value === true) return '1';
    if (value === false || value === null || value === undefined) return '';
    return String(value);
  }

  // By control: the value shown, the values `read` has set that `write` has not received yet, and
  // the value that was replaced. Only a person's changes go into the address: a late echo, from a
  // text box that waits for typing to end, would undo a step back in the history.
  const shown = {};
  const echoes = {};
  const retired = {};
  const ECHO_MS = 2000;

  function noteShown(key, text) {
    if (shown[key] === text) return;
    if (shown[key] !== undefined) {
      retired[key] = {text: shown[key], until: performance.now() + ECHO_MS};
    }
    shown[key] = text;
    (echoes[key] = echoes[key] || []).push(text);
  }

  // Only a text box, which waits for typing to end, reports late. A choice or switch that returns to
  // its previous value was changed on purpose.
  const isTyped = (key) => {
    const box = document.getElementById(key);
    return box !== null && box.matches('input:not([readonly]):not([type="checkbox"])');
  };

  function isEcho(parameter, text) {
    const key = parameter.control;
    const old = isTyped(key) ? retired[key] : undefined;
    if (text !== shown[key] && old && old.text === text && performance.now() < old.until) {
      clientside.set_props(key, {[parameter.prop]: asControl(parameter, shown[key])});
      return true;
    }
    const at = (echoes[key] || []).indexOf(text);
    if (at < 0) return shown[key] === text;
    echoes[key].splice(0, at + 1);
    return true;
  }

  // By path: what a mounted page has told of its parameters.
  /** @type {Record<string, any>} */
  const specs = {};

  // What a page's parameter names is selected on all pages; taking it away ends the selection.
  function withSelection(changes, query) {
    const before = query.get('select') || '';
    for (const parameter of specs[location.pathname]?.parameters || []) {
      const kind = parameter.selects;
      if (!kind || !(parameter.name in changes) || 'select' in changes) continue;
      const value = changes[parameter.name];
      if (value) return {...changes, select: kind + ':' + value};
      if (before.startsWith(kind + ':')) return {...changes, select: ''};
    }
    return changes;
  }

  // Changes some parameters of the address; an empty value removes the parameter.
  function change(changes, push) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(withSelection(changes, query))) {
      if (value === '' || value === null || value === undefined) query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/');
    const search = text ? '?' + text : '';
    if (search === location.search) return;
    history[push ? 'pushState' : 'replaceState']({}, '', location.pathname + search + location.hash);
    window.dispatchEvent(new Event('tilescope:address'));
  }

  clientside.view = {
    // Called once a page is mounted, and with every address of that page from then on.
    read(address, spec, previous) {
      const none = clientside.no_update;
      const parameters = spec.parameters;
      const controls = parameters.filter((parameter) => parameter.control);
      specs[spec.path] = spec;
      window.tilescope.mounted(spec.name);
      // A page without controls has one output, which is not wrapped in a list.
      const outputs = (state, values) => controls.length ? [state, ...values] : state;
      if (location.pathname !== spec.path) return outputs(none, controls.map(() => none));
      const query = new URLSearchParams(location.search);
      const view = {
        report: query.get('report') || window.tilescope.newestReport(),
        with: query.get('with') || '',
      };
      for (const parameter of parameters) {
        const text = query.get(parameter.name);
        view[parameter.name] = text === null ? parameter.default : text;
      }
      const values = controls.map((parameter) => asControl(parameter, view[parameter.name]));
      controls.forEach((parameter, index) => noteShown(parameter.control, asText(values[index])));
      return outputs(same(view, previous) ? none : view, values);
    },

    // The part of a page's state that a panel depends on.
    derive(view, spec, previous) {
      const names = spec.panels[clientside.callback_context.outputs_list.id];
      // `live` tells that a report has grown, see live.js.
      const part = Object.fromEntries(['report', 'with', 'live', ...names].map((name) => [name, view[name]]));
      return same(part, previous) ? clientside.no_update : part;
    },

    write(...values) {
      const spec = values.pop();
      if (location.pathname !== spec.path) return;
      const controls = spec.parameters.filter((parameter) => parameter.control);
      const changes = {};
      controls.forEach((parameter, index) => {
        if (values[index] === undefined) return;
        const text = asText(values[index]);
        if (isEcho(parameter, text)) return;
        shown[parameter.control] = text;
        changes[parameter.name] = text === parameter.default ? '' : text;
      });
      change(changes, false);
    },
  };
  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {changeView: change});
})();
