// Which routes this server has. A part of the app whose route is missing is not shown.

const known = new Set((document.querySelector('meta[name="routes"]')?.getAttribute("content") ?? "").split(" "));

/** Whether the server has a route, such as `GET/v1/chats`. @param {string} route */
export const hasRoute = (route) => known.has(route);
