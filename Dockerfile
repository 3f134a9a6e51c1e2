# One image, a target for each app: docker build --target worker (or api, admin, migrate). They share all layers; a target
# adds the command. Nothing is fetched but this base image and packages of the npm registry, and no install script runs.
ARG NODE=24.21.0-bookworm-slim

FROM node:${NODE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
COPY libs/jobs/package.json libs/jobs/
COPY libs/jobs/bin libs/jobs/bin
COPY libs/jobs-admin/package.json libs/jobs-admin/
COPY libs/samples/package.json libs/samples/

FROM packages AS build
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json nest-cli.json README.md LICENSE ./
COPY tools/build.mjs tools/
COPY libs libs
COPY apps apps
RUN node tools/build.mjs

FROM packages AS production
RUN npm ci --ignore-scripts --no-audit --no-fund --omit=dev --omit=optional

FROM node:${NODE} AS runtime
ENV NODE_ENV=production
WORKDIR /app
COPY --from=production /app ./
COPY --from=build /app/libs/jobs/dist libs/jobs/dist
COPY --from=build /app/libs/jobs-admin/dist libs/jobs-admin/dist
COPY --from=build /app/libs/samples/dist libs/samples/dist
COPY --from=build /app/dist/apps dist/apps
# the user "node", by its number: so Kubernetes can see that it is not root
USER 1000:1000
STOPSIGNAL SIGTERM
# Node.js itself is the first process, in place of the base image's script and without npm: signals reach it.
ENTRYPOINT ["node"]

FROM runtime AS api
EXPOSE 3000
CMD ["dist/apps/api/main.js"]

FROM runtime AS admin
EXPOSE 3001
CMD ["dist/apps/admin/main.js"]

FROM runtime AS migrate
CMD ["libs/jobs/bin/pg-jobs.mjs", "migrate"]

FROM runtime AS worker
EXPOSE 8081
CMD ["dist/apps/worker/main.js"]
