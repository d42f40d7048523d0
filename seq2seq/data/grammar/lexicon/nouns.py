"""The noun table: Spanish noun, gender, English noun, then tags and irregular forms.

A section heading gives the tags every noun of the section has. `+tag` adds one. `pl=` and
`enpl=` give irregular plurals; `mass` nouns have no plural; `only` nouns have no singular; `one`
nouns are used in the singular;
`el` marks feminine nouns that take el; `in`, `at` and `on` are the English preposition for
being there. An underscore stands for a space.
"""

TABLE = """
[kin hum]
padre m father enpl=parents
madre f mother one
hermano m brother
hermana f sister
hijo m son enpl=children
hija f daughter
abuelo m grandfather enpl=grandparents
abuela f grandmother
tío m uncle
tía f aunt
primo m cousin
prima f cousin
amigo m friend
amiga f friend
vecino m neighbor
vecina f neighbor
jefe m boss
jefa f boss

[job hum]
profesor m teacher
profesora f teacher
médico m doctor
médica f doctor
enfermero m nurse
enfermera f nurse
abogado m lawyer
abogada f lawyer
ingeniero m engineer
ingeniera f engineer
estudiante m student
estudiante f student
cocinero m cook
cocinera f cook
camarero m waiter
camarera f waitress
actor m actor
actriz f actress
cantante m singer
cantante f singer
artista m artist
artista f artist
escritor m writer
escritora f writer
periodista m journalist
periodista f journalist
dentista m dentist
dentista f dentist
granjero m farmer
granjera f farmer
científico m scientist
científica f scientist
pintor m painter
pintora f painter
conductor m driver
conductora f driver
secretario m secretary
secretaria f secretary
bailarín m dancer
bailarina f dancer
músico m musician
panadero m baker
panadera f baker
juez m judge
soldado m soldier
piloto m pilot
policía m police_officer

[person hum]
hombre m man
mujer f woman
chico m boy
chica f girl
niño m child
niña f child
cliente m customer
clienta f customer
turista m tourist
turista f tourist
alumno m pupil
alumna f pupil
rey m king
reina f queen
príncipe m prince
princesa f princess

[animal land]
perro m dog +pet +tame
gato m cat +pet +tame
caballo m horse
vaca f cow +tame
oveja f sheep +tame
cerdo m pig +tame
gallina f hen +tame
ratón m mouse
conejo m rabbit +pet +tame
león m lion
elefante m elephant
oso m bear
pato m duck +tame
tortuga f turtle +pet +tame
mono m monkey
lobo m wolf
tigre m tiger
burro m donkey +tame

[animal]
pájaro m bird +pet +tame
pez m fish
águila f eagle el

[food]
manzana f apple
naranja f orange
plátano m banana
huevo m egg
patata f potato
tomate m tomato
zanahoria f carrot
galleta f cookie +dish
pastel m cake +dish
bocadillo m sandwich +dish
limón m lemon
fresa f strawberry
cereza f cherry
pera f pear
cebolla f onion
ensalada f salad +dish
hamburguesa f hamburger +dish

[food mass]
pan m bread +dish
queso m cheese
carne f meat +dish
pescado m fish +dish
arroz m rice +dish
sopa f soup +dish
chocolate m chocolate
fruta f fruit
mantequilla f butter
jamón m ham
pollo m chicken +dish
pasta f pasta +dish
miel f honey

[drink mass]
agua f water el
leche f milk
café m coffee
té m tea
vino m wine
cerveza f beer
zumo m juice
limonada f lemonade

[read thing]
libro m book +text
carta f letter +text
periódico m newspaper
revista f magazine
novela f novel +text
poema m poem +text
artículo m article +text
cuento m story +text
informe m report +text
diccionario m dictionary
mensaje m message +text

[cloth]
camisa f shirt
vestido m dress
abrigo m coat
sombrero m hat
falda f skirt
chaqueta f jacket
zapato m shoe
bota f boot
guante m glove
bufanda f scarf enpl=scarves
calcetín m sock
jersey m sweater pl=jerséis
corbata f tie
pantalón m pants only
gafa f glasses only

[thing]
llave f key
bolsa f bag +inside +opens
mochila f backpack +inside +opens
caja f box +inside +opens
maleta f suitcase +inside +opens
reloj m watch
paraguas m umbrella +opens
cuchillo m knife
vaso m glass
taza f cup
plato m plate
botella f bottle +opens
cuchara f spoon
tenedor m fork
lápiz m pencil
bolígrafo m pen
regalo m gift +opens
flor f flower
foto f photo
mapa m map
pelota f ball
juguete m toy
muñeca f doll
anillo m ring
espejo m mirror
lámpara f lamp
vela f candle
manta f blanket
toalla f towel
cuadro m painting
martillo m hammer
cuerda f rope
moneda f coin

[device thing]
teléfono m phone
ordenador m computer
radio f radio
cámara f camera

[device]
horno m oven
nevera f refrigerator +inside
televisor m television

[furniture]
mesa f table +surface
silla f chair +surface
cama f bed +surface
sofá m sofa +surface
armario m closet +inside
escritorio m desk +surface
estante m shelf +surface
alfombra f carpet +surface

[opens fixture]
puerta f door
ventana f window
cajón m drawer +inside

[vehicle]
coche m car +drive
autobús m bus +drive +ride
tren m train +ride
barco m boat +ride
avión m plane +ride
bicicleta f bicycle
moto f motorcycle +drive
camión m truck +drive
taxi m taxi +drive +ride

[building place dest in]
casa f house +live
escuela f school +study at
hospital m hospital
iglesia f church
biblioteca f library +study
tienda f store at
mercado m market at
restaurante m restaurant +eat at
hotel m hotel +eat at
museo m museum at
banco m bank at
oficina f office
estación f station at
aeropuerto m airport at
universidad f university +study at
teatro m theater at
cine m cinema at
fábrica f factory at
farmacia f pharmacy at
panadería f bakery at
supermercado m supermarket at
gimnasio m gym at
granja f farm on +live
castillo m castle +live
torre f tower

[room in]
cocina f kitchen +eat +study
habitación f room +study
jardín m garden +eat
baño m bathroom
dormitorio m bedroom +study
garaje m garage

[outdoor place in]
parque m park +walk +dest +eat
calle f street
plaza f square +walk +dest
playa f beach on +dest +eat
montaña f mountain on +climb
río m river +water +cross
mar m sea one +water
lago m lake +water +dest
piscina f pool +water +dest
bosque m forest +walk
isla f island on +live +dest
pueblo m village +walk +live +dest
ciudad f city +walk +live +dest
puente m bridge on +cross
desierto m desert +cross
valle m valley +live +walk +dest

[body]
cabeza f head +washed
mano f hand +washed +many
pie m foot +washed +many
diente m tooth +brushed +many
ojo m eye +many
brazo m arm +limb +many
pierna f leg +limb +many
espalda f back
garganta f throat
rodilla f knee +limb
estómago m stomach

[abstract]
idea f idea
problema m problem
pregunta f question
respuesta f answer
plan m plan
secreto m secret
verdad f truth one
error m mistake
sueño m dream
viaje m trip
proyecto m project
palabra f word
nombre m name
regla f rule
ejemplo m example
lección f lesson
decisión f decision
ejercicio m exercise

[event]
fiesta f party +dest
reunión f meeting +dest
clase f class +dest
película f movie
concierto m concert +dest
partido m game +dest
examen m exam pl=exámenes
boda f wedding +dest
cena f dinner +meal
desayuno m breakfast +meal
almuerzo m lunch +meal
carrera f race

[subject mass]
historia f history
música f music
química f chemistry
física f physics
biología f biology
geografía f geography
literatura f literature
filosofía f philosophy

[language mass]
español m Spanish
inglés m English
francés m French
alemán m German
italiano m Italian
chino m Chinese
japonés m Japanese
ruso m Russian

[instrument]
piano m piano one
guitarra f guitar one
violín m violin one
flauta f flute one
tambor m drum one
trompeta f trumpet one

[sport mass]
fútbol m soccer
tenis m tennis
baloncesto m basketball
ajedrez m chess

[money mass]
dinero m money
"""
