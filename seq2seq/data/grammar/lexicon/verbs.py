"""The verb table: Spanish verb, `se` | English verb | subjects | frame | tags.

The frame lists what follows the verb: `obj:` tags of things, `hum` a human direct object,
`obj?:` the same but optional, `pp:es>en:tags` a prepositional complement (`pp?:` optional; an
empty English side means a direct object; `stranger` is a person outside the family), `rec` a
recipient ("give me", "give ... to Ana"), `recto` a recipient that always takes "to" (`rec?`,
`recto?` optional), `where` a place the object ends up in.

Tags: `stat` stative (no progressive; its imperfect is a plain English past), `loc` may happen
at a place, `m=` manner adverbs by letter, `enc` may carry enclitic pronouns, `sub` used in the
subjunctive, `cmd` used in commands, `noclit` no bare object pronoun, `encr` may carry
its reflexive, `noprog` no progressive, `t=` the only tenses, `goal` may have a purpose.
"""

TABLE = """
trabajar | work | hum | pp?:con>with:hum | loc:indoor m=WH sub cmd goal
caminar | walk | hum | pp?:por>through:walk | m=QH sub goal
correr | run | hum land | pp?:por>through:walk | m=Q goal
nadar | swim | hum | pp?:en>in:water | m=WQ
viajar | travel | hum | pp:a>to:travel | sub goal
dormir | sleep | hum animal | | loc:sleep m=WH sub
cantar | sing | hum | | loc:stage m=WH sub cmd
bailar | dance | hum | pp?:con>with:hum | loc:stage m=WH sub
llorar | cry | hum | | m=HN
sonreír | smile | hum | | m=N
descansar | rest | hum | | loc:rest m=H sub cmd
llegar | arrive | hum ride | pp?:a>at:arrive | m=T sub
salir | go out | hum | pp?:con>with:hum | m=T goal
salir | leave | hum | pp:de>:leave | m=T goal
salir | leave | ride | | m=T goal
volver | return | hum | pp:a>to:dest | m=T sub goal
venir | come | hum | pp:a>to:dest | m=T sub goal
ir | go | hum | pp:a>to:travel,dest | sub cmd goal
entrar | enter | hum land | pp:en>:building,room | sub cmd goal
vivir | live | hum | pp:en>in:city,live | stat
nacer | be born | hum | pp:en>in:city | t=pret
gritar | shout | hum | | loc:stage
fumar | smoke | hum | | loc:stage m=H
funcionar | work | device vehicle | | m=W
esperar | wait | hum | | loc:wait sub cmd goal
cenar | have dinner | hum | pp?:con>with:hum | loc:eat m=T
desayunar | have breakfast | hum | | loc:eat m=T
comer | eat | hum animal | obj:food | loc:eat m=Q enc sub cmd
beber | drink | hum animal | obj:drink | loc:eat cmd
cocinar | cook | hum | obj:dish | loc:cook m=W enc
preparar | prepare | hum | obj:dish,meal | loc:cook m=C enc
probar | try | hum | obj:food,drink | cmd
pedir | ask for | hum | obj:food,drink |
pagar | pay for | hum | obj:meal,cloth,thing |
leer | read | hum | obj:read | loc:study m=Q enc sub cmd
escribir | write | hum | obj:text rec? | loc:study m=Q enc sub cmd
comprar | buy | hum | obj:bought | loc:shop enc sub cmd goal
vender | sell | hum | obj:bought recto? | enc goal
ver | see | hum | obj:animal,vehicle,place,film hum | noprog enc
mirar | look at | hum | obj:photo,animal,outdoor,cloth hum | enc cmd
buscar | look for | hum | obj:thing,cloth,animal,read hum | loc:search enc cmd goal
encontrar | find | hum | obj:thing,cloth,animal,read hum | loc:search noprog enc
perder | lose | hum | obj:thing,cloth,money,race | noprog
abrir | open | hum | obj:opens | m=C enc cmd sub
cerrar | close | hum | obj:opens | m=C enc cmd sub
limpiar | clean | hum | obj:room,furniture,device,drive,fixture | m=C enc cmd sub
lavar | wash | hum | obj:cloth,drive,dishes | m=C enc cmd sub
romper | break | hum | obj:fragile | noprog
usar | use | hum | obj:device,thing | sub goal
necesitar | need | hum | obj:thing,cloth,device,vehicle,money | stat noclit
querer | want | hum | obj:thing,cloth,animal,food,drink,vehicle | stat noclit
querer | love | hum | hum | stat noclit
tener | have | hum | obj:animal,thing,cloth,device,vehicle,money,abstract,room | stat noclit sub
recibir | receive | hum | obj:text,gift |
traer | bring | hum | obj:food,drink,thing,cloth rec? | enc cmd
poner | put | hum | obj:thing,cloth,read where | cmd
dejar | leave | hum | obj:thing,cloth,read where | cmd
guardar | keep | hum | obj:thing,cloth,money where |
esconder | hide | hum | obj:thing,money,gift where |
llevar | wear | hum | obj:cloth | noclit
cortar | cut | hum | obj:cuttable | m=C cmd
elegir | choose | hum | obj:cloth,food,gift,film |
construir | build | hum | obj:building,cross,furniture,boat |
reparar | repair | hum | obj:instrument,device,vehicle,furniture,fixture | loc:garage m=C enc
pintar | paint | hum | obj:room,furniture,fixture,boat,animal |
dibujar | draw | hum | obj:animal,outdoor,building | m=W cmd
tocar | play | hum | obj:instrument | m=W
jugar | play | hum | pp:a>:sport | loc:play m=W
jugar | play | hum pet | pp:con>with:toy,pet | loc:play
aprender | learn | hum | obj:language,subject | m=Q goal
estudiar | study | hum | obj?:language,subject | loc:study m=H sub goal
enseñar | teach | hum | obj:language,subject recto? |
entender | understand | hum | obj:abstract,text,language | stat m=W
explicar | explain | hum | obj:abstract recto? | m=C enc
conocer | know | hum | obj:city,place hum | stat
saber | know | hum | obj:fact | stat
recordar | remember | hum | obj:abstract,event hum | stat
olvidar | forget | hum | obj:abstract,thing,cloth | noprog
preferir | prefer | hum | obj:food,drink,cloth | stat noclit
odiar | hate | hum | obj:food,animal,sport,city | stat noclit
ayudar | help | hum | hum | enc sub cmd
visitar | visit | hum | obj:city,visitable hum | enc sub
invitar | invite | hum | hum pp?:a>to:invite | enc
llamar | call | hum | hum | enc cmd sub goal
saludar | greet | hum | hum |
abrazar | hug | hum | hum |
besar | kiss | hum | hum |
esperar | wait for | hum | obj:ride hum | loc:wait enc goal
escuchar | listen to | hum | obj:music,concert hum | m=C cmd
oír | hear | hum animal | obj:animal,vehicle hum | noprog
cuidar | take care of | hum | obj:animal,garden hum | m=W enc
salvar | save | hum | obj:animal hum | noprog
golpear | hit | hum | obj:ball,fixture,furniture |
felicitar | congratulate | hum | hum |
robar | steal | hum | obj:money,drive,device,ring |
enviar | send | hum | obj:text,gift,money rec | enc
mandar | send | hum | obj:text,gift,money rec |
dar | give | hum | obj:thing,food,cloth,read,money rec | enc cmd
regalar | give | hum | obj:gift,cloth,animal rec |
prestar | lend | hum | obj:thing,cloth,vehicle,money rec | cmd
mostrar | show | hum | obj:photo,room,cloth,city rec | enc cmd
contar | tell | hum | obj:told rec | enc
ofrecer | offer | hum | obj:food,drink,gift rec |
devolver | return | hum | obj:thing,read,cloth,money recto? | enc
servir | serve | hum | obj:dish,drink,meal rec? |
organizar | organize | hum | obj:organized | goal
hacer | make | hum | obj:made | noclit
hacer | take | hum | obj:taken | noclit
hacer | do | hum | obj:done | noclit m=W
celebrar | celebrate | hum | obj:celebrated | loc:eat
terminar | finish | hum | obj:work,text |
terminar | end | event | | m=T
empezar | start | event | | m=T
resolver | solve | hum | obj:problem | m=Q
ganar | win | hum | obj:race |
cruzar | cross | hum land | obj:cross,street | m=Q enc cmd goal
subir | climb | hum | obj:climb,climbed | m=Q
alquilar | rent | hum | obj:house,drive,boat | goal
coger | take | hum | obj:ride | goal
conducir | drive | hum | obj:drive | m=WQ
repetir | repeat | hum | obj:said | m=Q cmd
traducir | translate | hum | obj:text | m=W enc
firmar | sign | hum | obj:signed |
corregir | correct | hum | obj:mistake,text | m=C
aceptar | accept | hum | obj:gift,plan |
tirar | throw | hum | obj:ball,thrown |
descubrir | discover | hum | obj:fact,island |
discutir | discuss | hum | obj:plan |
hablar | speak | hum | obj:language | m=WQ noclit
hablar | talk | hum | pp:con>to:hum | m=H sub cmd
hablar | talk | hum | pp:de>about:talk |
pensar | think | hum | pp:en>about:talk,kin |
soñar | dream | hum | pp:con>about:dreamt,kin |
creer | believe | hum | pp:en>in:plan,kin | stat
asistir | attend | hum | pp:a>:attend | sub
disfrutar | enjoy | hum | pp:de>:event,trip |
casar se | get married | hum | pp?:con>to:stranger |
acordar se | remember | hum | pp:de>:remembered,kin | stat
quejar se | complain | hum | pp:de>about:complaint |
enamorar se | fall in love | hum | pp:de>with:stranger | noprog
levantar se | get up | hum | | m=T encr goal
despertar se | wake up | hum | | m=T
acostar se | go to bed | hum | | m=T encr
duchar se | take a shower | hum | | m=QT encr
sentar se | sit down | hum | pp?:en>on:sit | encr
quedar se | stay | hum | pp:en>in:stay | encr
vestir se | get dressed | hum | | m=Q
enfadar se | get angry | hum | pp?:con>with:hum |
mudar se | move | hum | pp:a>to:city | encr
"""

# Tags of the frames above that are no tag of the noun table: the nouns, or +tag for all with it.
GROUPS = """
bought: +food +drink +cloth +thing +furniture +vehicle +instrument
film: película
photo: foto cuadro mapa espejo
race: carrera partido
dishes: plato vaso taza cuchara tenedor cuchillo
fragile: vaso plato taza botella ventana lámpara silla juguete reloj espejo muñeca
gift: regalo flor
cuttable: pan queso carne pastel manzana cebolla tomate limón cuerda jamón
boat: barco
made: pastel ensalada bocadillo sopa pan café limonada vestido juguete error plan té queso
taken: examen viaje foto
done: ejercicio
toy: pelota muñeca juguete
fact: verdad respuesta secreto nombre
visitable: museo castillo biblioteca iglesia granja isla torre pueblo universidad
larder: mesa nevera caja bolsa estante
music: música radio
concert: concierto
garden: jardín
ball: pelota caja muñeca
ring: anillo
told: cuento verdad secreto plan problema sueño
organized: fiesta reunión boda cena viaje carrera
trip: viaje
celebrated: boda fiesta
work: lección proyecto examen viaje carrera
problem: problema
street: calle
climbed: torre
house: casa habitación garaje
said: ejemplo palabra pregunta lección nombre respuesta regla
signed: carta informe libro
mistake: error examen
plan: plan idea proyecto decisión
thrown: moneda cuerda flor juguete
island: isla
remembered: libro película viaje problema fiesta plan proyecto sueño partido boda carta
talk: libro película viaje problema fiesta idea plan proyecto sueño partido boda música historia \
    filosofía regla reunión
dreamt: casa viaje coche boda mar playa caballo fiesta barco castillo
complaint: examen hotel clase problema regla carta reunión cena restaurante
attend: fiesta reunión clase concierto boda partido
invite: fiesta boda cena concierto
sit: silla sofá cama alfombra
stay: casa hotel jardín habitación hospital ciudad pueblo cocina oficina biblioteca
leave: casa escuela oficina hotel hospital iglesia biblioteca estación universidad cine fábrica \
    ciudad cocina teatro gimnasio tienda museo banco restaurante
arrive: estación aeropuerto hotel escuela oficina casa playa iglesia hospital museo universidad \
    teatro cine restaurante
indoor: hospital escuela biblioteca restaurante hotel oficina museo banco fábrica farmacia \
    panadería granja mercado supermercado tienda universidad aeropuerto teatro jardín
sleep: sofá cama habitación dormitorio jardín garaje hotel cocina playa castillo
garage: garaje
stage: teatro plaza calle parque playa iglesia jardín
rest: sofá jardín habitación parque playa hotel dormitorio
wait: estación parque aeropuerto calle hospital plaza puente oficina restaurante cine
cook: cocina jardín casa restaurante
shop: tienda mercado supermercado panadería farmacia
search: parque calle habitación cocina jardín bosque playa oficina garaje baño
play: parque jardín calle playa escuela plaza gimnasio
"""
