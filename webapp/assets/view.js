// The state of a page lives in the URL. `read` follows the URL, `write` follows the controls,
// `set` is for scripts (a click in a chart). Nothing else changes the address.
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

  // What each control shows; what `read` put into it that `write` has not heard of yet; and what
  // it took away. Only what a person changed goes into the address: an echo that comes late, from
  // a text box that waits for typing to end, would undo a step back in the history.
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

  // Only a box that waits for typing to end can tell late; of a choice or switch, going back at
  // once to what it was before is meant.
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

  // Changes some parameters of the address; an empty value or the default leaves it out.
  function change(changes, push) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === '' || value === null || value === undefined) query.delete(name);
      else query.set(name, value);
    }
    const text = query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/');
    const search = text ? '?' + text : '';
    if (search === location.search) return;
    history[push ? 'pushState' : 'replaceState']({}, '', location.pathname + search + location.hash);
    clientside.set_props('url', {search, href: location.href});
  }

  clientside.view = {
    read(pathname, search, spec, previous, listing) {
      const none = clientside.no_update;
      const parameters = spec.parameters;
      const controls = parameters.filter((parameter) => parameter.control);
      const path = pathname === '/' ? '/summary' : pathname;
      // Of a page without controls there is one thing to tell, and it stands alone.
      const told = (state, values) => controls.length ? [state, ...values] : state;
      if (path !== spec.path) return told(none, controls.map(() => none));
      const query = new URLSearchParams(search);
      const view = {
        report: query.get('report') || (listing.length ? listing[0].id : ''),
        with: query.get('with') || '',
      };
      for (const parameter of parameters) {
        const text = query.get(parameter.name);
        view[parameter.name] = text === null ? parameter.default : text;
      }
      const values = controls.map((parameter) => asControl(parameter, view[parameter.name]));
      controls.forEach((parameter, index) => noteShown(parameter.control, asText(values[index])));
      return told(same(view, previous) ? none : view, values);
    },

    write(...values) {
      const spec = values.pop();
      const path = location.pathname === '/' ? '/summary' : location.pathname;
      if (path !== spec.path) return;
      const controls = spec.parameters.filter((parameter) => parameter.control);
      const changes = {};
      controls.forEach((parameter, index) => {
        if (values[index] === undefined) return;
        const text = asText(values[index]);
        if (isEcho(parameter, text)) return;
        shown[parameter.control] = text;
        changes[parameter.name] = text === parameter.default ? '' : text;
        // An emptied box whose default is not empty must be told from one never touched.
      });
      change(changes, false);
    },
  };
  window.tilescope = Object.assign(window.tilescope || {}, {changeView: change});
})();
